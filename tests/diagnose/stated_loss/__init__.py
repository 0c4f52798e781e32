"""Tests of the sentences that state a lasting loss."""
