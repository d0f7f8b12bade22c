"""The machinery of campaigns: shards, scripts of breaches, processes that are killed, and the self-test."""
