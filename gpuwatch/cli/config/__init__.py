"""Commands about configuration and rules: `hosts`, `rules`, `explain`, `config`, `completion`."""
