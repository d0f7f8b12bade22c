"""The check of many files: discovery, settings, cache, suppressions, baselines and fixes."""
