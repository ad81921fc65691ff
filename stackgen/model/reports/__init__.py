"""Results of commands, ready to be shown to a person or to a machine; one module per topic."""
