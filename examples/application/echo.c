// Copies the inputs of a process image to its outputs, cycle by cycle, until the engine stops or is gone:
//     cc -O2 -std=c11 echo.c -o echo && ./echo PATH
#define _GNU_SOURCE
#include "image.h"

int main(int count, char **arguments) {
    if (count != 2) die("usage", "echo PATH, where an engine offers its process image");
    struct image *image = attach(arguments[1]);
    struct direction *in = &image->inputs, *out = &image->outputs;
    uint32_t received = sit(in), sent = sit(out);
    uint64_t bytes = in->data_bytes < out->data_bytes ? in->data_bytes : out->data_bytes, sequence = 0;
    // Goes on behind the last number of whoever wrote before.
    for (uint32_t index = 0; index < 3; index++)
        if (slot(image, out, index)->sequence > sequence) sequence = slot(image, out, index)->sequence;
    do {
        while (in->exchange & FRESH) {
            exchange(in, &received, 0);
            const struct slot *from = slot(image, in, received);
            struct slot *to = slot(image, out, sent);
            // The application: here it computes outputs from inputs.
            memcpy(to->data, from->data, bytes);
            to->cycle = from->cycle;
            to->at = from->at;
            to->status = from->status; // 0 is Good; sent on, where the messages have a Status
            to->sequence = ++sequence;
            exchange(out, &sent, FRESH);
            image->application_heartbeat++;
            notify(out);
        }
    } while (wait_for_change(image, in));
    in->application_claim = out->application_claim = 0;
    return 0;
}
