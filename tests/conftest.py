"""What holds for every test."""

from hypothesis import HealthCheck, settings

# A busy machine is no failure: nothing here is timed. The same examples everywhere, so that a failure is one anywhere;
# where to look further, tests say (RADIXFLOW_LIVES).
settings.register_profile(
    "untimed", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")
