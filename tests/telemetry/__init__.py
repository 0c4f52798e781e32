"""The library that training scripts import."""
