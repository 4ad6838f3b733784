"""The paper's experiments: what runs, what is drawn, what is claimed."""
