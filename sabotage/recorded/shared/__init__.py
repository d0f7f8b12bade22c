"""What scenes share: an environment for machines, a probe for functions, and a context for all else."""
