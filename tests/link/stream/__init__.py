"""Tests of the limits of what a link sends."""
