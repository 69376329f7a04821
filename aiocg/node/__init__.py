"""A node: runs workers for clients on other machines. `aiocg serve` starts one."""
