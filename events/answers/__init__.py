"""What the HTTP interface answers, as structs: the control plane fills them, its clients read them."""
