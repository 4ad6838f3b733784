"""What the service and its client send each other: requests, answers, specifications of models. Needs no JAX."""
