"""The language: models of programs and policies, control flow, names, types and guardrails."""
