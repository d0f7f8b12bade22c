"""What plays the attacks: shards, scripts of breaches, processes that are killed, the test of the alarm itself."""
