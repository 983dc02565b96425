"""This process: threads, a scratch folder, no JVM."""
