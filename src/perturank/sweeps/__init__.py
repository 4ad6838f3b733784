"""Many runs: which of them are still to be made, on which processors, and how long they will take."""
