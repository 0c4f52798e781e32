"""Rules and stretches of files on which a log reader hung, left out by the next one."""
