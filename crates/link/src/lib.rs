//! Packet sockets with VLAN tags and kernel timestamps.
