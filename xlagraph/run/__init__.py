"""The run folder: what capture writes and every analysis reads."""
