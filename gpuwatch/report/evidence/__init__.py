"""`gpuwatch evidence`: one zip file with everything about an incident or a job."""
