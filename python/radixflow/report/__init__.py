"""Reports on result folders: Markdown, one self-contained HTML page, and a trace for Perfetto."""
