"""What tests share: small models and data, real services, databases and browsers."""
