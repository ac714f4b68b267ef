"""The live tests of `tests/kernel` on other kernels: Debian's own, under QEMU's TCG (`make test-vm`)."""
