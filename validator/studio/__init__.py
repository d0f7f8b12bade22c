"""The live studio: the review page, which follows a journal, acts for the operator, and injects failures."""
