"""The hardware watchdogs: kernel devices and the microcontroller, fed only while all required work reports."""
