"""Decodes UADP NetworkMessages with asyncua, one per line of standard input, and prints what it finds.

A line is the message in hex, then, for a DataSetMessage with RawData, a space and the types of its fields with
commas between them, ";" between DataSetMessages. The answer is one JSON object per line, null where the wire has
nothing. Values are strings: decimal integers, Float and Double as the hex of their bytes, DateTime as ticks
(asyncua counts microseconds: the last digit is 0).
"""

import datetime
import json
import struct
import sys

from asyncua.common.utils import Buffer
from asyncua.pubsub.uadp import UadpDataSetRaw, UadpDataSetVariant, UadpNetworkMessage
from asyncua.ua import VariantType
from asyncua.ua.ua_binary import unpack_uatype

EPOCH = datetime.datetime(1601, 1, 1, tzinfo=datetime.timezone.utc)


def ticks(when):
    if when is None:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.timezone.utc)
    return str((when - EPOCH) // datetime.timedelta(microseconds=1) * 10)


def value(type_name, v):
    if type_name == "Boolean":
        return "true" if v else "false"
    if type_name == "Float":
        return struct.pack("<f", v).hex()
    if type_name == "Double":
        return struct.pack("<d", v).hex()
    if type_name == "DateTime":
        return ticks(v)
    if type_name == "StatusCode":
        return str(v.value)
    return str(v)


def fields(message, types):
    if isinstance(message, UadpDataSetVariant):
        return "Variant", [[v.VariantType.name, value(v.VariantType.name, v.Value)] for v in message.Data]
    assert isinstance(message, UadpDataSetRaw), type(message)
    data = Buffer(message.Data)
    found = [[name, value(name, unpack_uatype(VariantType[name], data))] for name in types.split(",")]
    assert len(data) == 0, f"{len(data)} bytes left"
    return "RawData", found


def decode(line):
    text, _, types = line.partition(" ")
    message = UadpNetworkMessage.from_binary(Buffer(bytes.fromhex(text)))
    group = message.GroupHeader
    types = types.split(";")
    types += [""] * len(message.Payload)
    sets = []
    for part, its_types in zip(message.Payload, types):
        header = part.Header
        encoding, found = fields(part, its_types)
        sets.append(
            {
                "valid": header.Valid,
                "encoding": encoding,
                "sequence": header.SequenceNo,
                "timestamp": ticks(header.Timestamp),
                "status": header.Status,
                "major": header.CfgMajorVersion,
                "minor": header.CfgMinorVersion,
                "fields": found,
            }
        )
    publisher = message.Header.PublisherId
    return {
        "publisher": [type(publisher).__name__, publisher],
        "group": group
        and {
            "writerGroupId": group.WriterGroupId,
            "version": group.GroupVersion,
            "number": group.NetworkMessageNo,
            "sequence": group.SequenceNo,
        },
        "writerIds": message.DataSetPayloadHeader,
        "timestamp": ticks(message.Timestamp),
        "dataSets": sets,
    }


for line in sys.stdin:
    print(json.dumps(decode(line.strip())))
