"""What merged records say; pure, reads the Dataset."""
