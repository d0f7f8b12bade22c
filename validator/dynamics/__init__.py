"""How runs behave: measures of them, baselines that are learnt from healthy runs, and alarms where a fleet changes."""
