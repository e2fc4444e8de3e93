"""Copies the inputs of a process image to its outputs, cycle by cycle, until the engine stops or is gone:

    python3 echo.py PATH
"""

import sys

from image import INPUTS, OUTPUTS, End, Image

if len(sys.argv) != 2:
    sys.exit("usage: echo.py PATH, where an engine offers its process image")
image = Image(sys.argv[1])
inputs, outputs = End(image, INPUTS), End(image, OUTPUTS)
while image.engine_is_there():
    while inputs.fresh():
        cycle, at, status, data = inputs.take()
        # The application: here it computes outputs from inputs. The status, 0 is Good, is sent on where messages have one.
        outputs.publish(cycle, at, status, data[: outputs.data_bytes])
    inputs.wait(0.1)
inputs.give_back()
outputs.give_back()
