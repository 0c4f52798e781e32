"""What the kernel log tells of GPUs: the Xid codes and what they mean."""
