// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The first process of the kernel laboratory. The kernel's command line gives it, as environment:
//
//   LAB_DIR    a folder of the host; appears at /tmp/lab, writable, and is where the program starts
//   LAB_RUN    the program in that folder, a path that begins with ./
//
// The program gets nothing to read; what it prints goes to the files stdout and stderr in that folder. Its exit code becomes that of
// the kernel (128 + signal when a signal ended it) and is in the file ended. When the laboratory itself fails, the console says what failed and the exit code
// is 125.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FAILED = 125, TAI_MINUS_UTC_S = 37 };

// What programs in the laboratory see of the environment: the same on every host.
static char *const environment[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/tmp",
    "LANG=C",
    "USER=root",
    "KERNEL_LAB=1",
    "PYTHONHASHSEED=0",
    "PYTHONDONTWRITEBYTECODE=1",
    NULL,
};

static void leave(int code) {
    char text[16];
    int file = open("/proc/exitcode", O_WRONLY);
    int length = snprintf(text, sizeof text, "%d\n", code);
    if (file < 0 || write(file, text, length) != length)
        fprintf(stderr, "kernel-lab: the exit code %d cannot be handed out: %s\n", code, strerror(errno));
    kill(-1, SIGKILL);
    sync();
    reboot(RB_POWER_OFF);
    _exit(FAILED); // Reached when this is not the first process of a kernel.
}

// Tells the host that the exit code is the program's.
static void note_end(int code) {
    char text[16];
    int file = open("/tmp/lab/ended", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int length = snprintf(text, sizeof text, "%d\n", code);
    if (file < 0 || write(file, text, length) != length || close(file) != 0) {
        fprintf(stderr, "kernel-lab: LAB_DIR cannot be written: %s\n", strerror(errno));
        fflush(stderr);
        leave(FAILED);
    }
    leave(code);
}

static void must(int result, const char *what) {
    if (result >= 0) return;
    fprintf(stderr, "kernel-lab: %s: %s\n", what, strerror(errno));
    fflush(stderr);
    leave(FAILED);
}

static void attach(const char *kind, const char *folder, const char *options) {
    char what[256];
    snprintf(what, sizeof what, "mounting %s at %s", kind, folder);
    if (mkdir(folder, 0755) != 0 && errno != EEXIST) must(-1, what);
    must(mount(kind, folder, kind, 0, options), what);
}

static void loopback_up(void) {
    struct ifreq request = {.ifr_flags = IFF_UP};
    strcpy(request.ifr_name, "lo");
    int handle = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    must(handle, "a socket");
    must(ioctl(handle, SIOCSIFFLAGS, &request), "setting lo up");
    close(handle);
}

static void set_clocks(void) {
    // CLOCK_TAI is CLOCK_REALTIME until told otherwise. The answer TIME_ERROR (5) means "not synchronised", and is no error.
    struct timex change = {.modes = ADJ_TAI, .constant = TAI_MINUS_UTC_S};
    must(adjtimex(&change), "setting the offset of TAI");
    // Threads are woken up to 50 us late unless they say otherwise; what is started from here inherits 1 ns.
    must(prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0), "setting the timer slack");
    // Timers go by steps of 10 ms until the first tick has passed.
    struct timespec tick = {.tv_nsec = 100 * 1000 * 1000};
    must(nanosleep(&tick, NULL), "waiting for the first tick");
}

static int open_or_leave(const char *path, int flags) {
    int file = open(path, flags | O_CLOEXEC, 0644);
    must(file, path);
    return file;
}

static void start(const char *program) {
    must(chdir("/tmp/lab"), "entering LAB_DIR");
    // Opened here, where a failure can still be told.
    int in = open_or_leave("/dev/null", O_RDONLY);
    int out = open_or_leave("stdout", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
    int err = open_or_leave("stderr", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
    pid_t child = fork();
    must(child, "starting a process");
    if (child == 0) {
        setsid();
        dup2(in, 0);
        dup2(out, 1);
        dup2(err, 2);
        char *arguments[] = {(char *)program, NULL};
        execve(program, arguments, environment);
        if (errno == ENOEXEC) {
            // A script that does not say what reads it: the shell does.
            char *shell[] = {"/bin/sh", (char *)program, NULL};
            execve(shell[0], shell, environment);
        }
        fprintf(stderr, "kernel-lab: %s: %s\n", program, strerror(errno));
        _exit(127);
    }
    for (;;) {
        int status;
        pid_t ended = wait(&status);
        // Orphans come here, too.
        if (ended == child) note_end(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
        if (ended < 0 && errno != EINTR) must(-1, "waiting");
    }
}

int main(void) {
    if (getpid() != 1) {
        fprintf(stderr, "kernel-lab: this is the first process of the laboratory's kernel; see docs/kernel-lab.md\n");
        return FAILED;
    }
    const char *folder = getenv("LAB_DIR"), *program = getenv("LAB_RUN");
    attach("proc", "/proc", NULL);
    if (!folder || !program) {
        fprintf(stderr, "kernel-lab: LAB_DIR and LAB_RUN are missing on the kernel's command line\n");
        leave(FAILED);
    }
    attach("sysfs", "/sys", NULL);
    attach("debugfs", "/sys/kernel/debug", NULL);
    attach("tmpfs", "/tmp", NULL);
    attach("tmpfs", "/run", NULL);
    attach("devtmpfs", "/dev", NULL);
    attach("devpts", "/dev/pts", NULL);
    attach("tmpfs", "/dev/shm", NULL);
    must(mkdir("/run/netns", 0755), "/run/netns");
    attach("hostfs", "/tmp/lab", folder);
    must(sethostname("kernel-lab", strlen("kernel-lab")), "setting the host's name");
    loopback_up();
    set_clocks();
    start(program);
}
