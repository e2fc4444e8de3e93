// A process image in C11, as docs/process-image.md describes it. Include it and go on from echo.c.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE _Alignas(64)
enum { MIDDLE = 3, FRESH = 4, ENGINE = 3 << 3, STOPPED = 2 };
struct direction {
    uint64_t data_bytes, slot_bytes, slots;
    LINE _Atomic uint32_t exchange;
    LINE _Atomic uint32_t changes;
    _Atomic uint32_t waiters;
    LINE _Atomic uint64_t engine_claim;
    _Atomic uint64_t application_claim;
};
struct image {
    char magic[8];
    uint32_t version, head_bytes;
    uint64_t file_bytes, fields_offset;
    uint32_t field_count, field_bytes;
    _Atomic uint64_t engine;
    LINE _Atomic uint32_t life;
    LINE _Atomic uint64_t engine_heartbeat;
    LINE _Atomic uint64_t application_heartbeat;
    LINE struct direction inputs, outputs;
};
_Static_assert(sizeof(struct direction) == 256 && sizeof(struct image) == 768, "docs/process-image.md");
struct slot { int64_t cycle, at; uint64_t sequence, status, reserved[4]; unsigned char data[]; };


static void die(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}
// Opens the image at a path; ends the program when there is none.
static struct image *attach(const char *path) {
    struct stat file;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &file)) die(path, strerror(errno));
    struct image *image = MAP_FAILED;
    if (file.st_size >= (off_t)sizeof *image)
        image = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (image == MAP_FAILED || memcmp(image->magic, "dbimage1", 8) || image->version != 1
        || image->file_bytes != (uint64_t)file.st_size) die(path, "no process image of version 1");
    return image;
}
static struct slot *slot(struct image *image, struct direction *way, uint32_t index) {
    return (struct slot *)((char *)image + way->slots + index * way->slot_bytes);
}
// A process, named for good: its start time (field 22 of /proc/PID/stat) and its number. 0: there is none.
static uint64_t process(uint64_t pid) {
    char path[40], text[1024] = {0}, state = 'X', *name_end;
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t read = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    if (!read || !(name_end = strrchr(text, ')'))) return 0;
    sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
           &state, &start);
    return state == 'Z' || state == 'X' ? 0 : (uint64_t)start << 22 | pid;
}
static int alive(uint64_t claim) { return claim && process(claim & ((1 << 22) - 1)) == claim; }
// Takes the application's end of a direction; returns its slot.
static uint32_t sit(struct direction *way) {
    uint64_t holder = way->application_claim, own = process((uint64_t)getpid());
    if (alive(holder) || !atomic_compare_exchange_strong(&way->application_claim, &holder, own))
        die("process image", "held by another application; end that one first");
    uint32_t word = atomic_fetch_add(&way->exchange, 0), middle = word & MIDDLE, engine = (word & ENGINE) >> 3;
    if (middle == engine || middle > 2 || engine > 2) die("process image", "no slot: a stranger has written into it");
    return 3 - middle - engine;
}
// Exchanges the own slot with the middle one: with FRESH to publish it, with 0 to take the other.
static void exchange(struct direction *way, uint32_t *own, uint32_t mark) {
    uint32_t word = way->exchange;
    while (!atomic_compare_exchange_weak(&way->exchange, &word, *own | (word & ENGINE) | mark)) {}
    *own = word & MIDDLE;
}
// Sleeps until the other side changes something; returns whether the engine is there.
static int wait_for_change(struct image *image, struct direction *way) {
    uint32_t changes = way->changes;
    way->waiters = 1;
    // Only after this is set does the other side wake us: look once more.
    if (way->exchange & FRESH || image->life == STOPPED) return image->life != STOPPED;
    const struct timespec timeout = {.tv_nsec = 100000000};
    long result = syscall(SYS_futex, &way->changes, FUTEX_WAIT, changes, &timeout);
    return image->life != STOPPED && (result == 0 || errno != ETIMEDOUT || alive(image->engine));
}
// Tells the other side that something has changed.
static void notify(struct direction *way) {
    way->changes++;
    if (atomic_exchange(&way->waiters, 0)) syscall(SYS_futex, &way->changes, FUTEX_WAKE, INT32_MAX);
}
