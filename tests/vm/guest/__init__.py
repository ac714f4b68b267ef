"""What runs inside a virtual machine: the steps, and the table of what is expected of each planted module."""
