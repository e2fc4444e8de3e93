//! Bytes of OPC UA PubSub: Ethernet, UADP headers, built-in types.
