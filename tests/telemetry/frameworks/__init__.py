"""The callbacks and writers with the real libraries."""
