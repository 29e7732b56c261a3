"""The answers of the HTTP interface as structs: the control plane fills them, its clients read them."""
