"""How frames arrive: ssh, command, local, demo."""
