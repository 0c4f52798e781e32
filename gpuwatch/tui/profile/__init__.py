"""The screen of `ctrl+t`: what a rank does, sampled for some seconds."""
