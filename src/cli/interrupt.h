/* SPDX-License-Identifier: Apache-2.0
 *
 * Ctrl-C and its relatives (SIGINT, SIGTERM, SIGHUP) while output files are half done. Outside of hold and release they
 * end the program at once, which is safe: nothing exists yet that would have to be cleaned up. */
#ifndef CLATTN_CLI_INTERRUPT_H
#define CLATTN_CLI_INTERRUPT_H

#include "io/output.h"

/* From here on an interrupt is kept until cli_interrupt_release(), which ends the program by it. */
void cli_interrupt_hold(void);
void cli_interrupt_release(void);

/* From here on an interrupt, also one that was kept, removes the temporaries of the set and ends the program at once;
 * NULL: it is kept again. Between hold and release. */
void cli_interrupt_abandons(output_set *set);

#endif
