"""Whether hits that end inside a block may be used with a model: measured, recorded, looked up before they are."""
