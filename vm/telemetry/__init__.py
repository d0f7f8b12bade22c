"""Spans and metrics of runs, made from their journal, for OpenTelemetry."""
