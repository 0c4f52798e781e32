"""The session over the logs of an ended job: files on disk, judged as `gpuwatch scan` judges them."""
