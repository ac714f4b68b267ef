"""Streams to test with, made by ffmpeg from its test pictures: `make media` writes them to build/media."""
