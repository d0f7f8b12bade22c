"""The values of references, and their partition by conditions."""
