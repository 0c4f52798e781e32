"""Outputs of NVIDIA's tools as drivers 470 to 570 and DCGM 3 and 4 print them, healthy and not."""
