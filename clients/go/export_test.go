package quorlock

// SidecarOfTests is the address of the sidecar for the examples.
func SidecarOfTests() string { return sidecar.unix }
