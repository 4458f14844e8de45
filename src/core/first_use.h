/* SPDX-License-Identifier: Apache-2.0
 *
 * One lock for the whole process, held while drivers are asked for their devices and CLBlast is used for the first
 * time. Both set themselves up then, and not all do so safely when two threads come at once: PoCL 3.1 lists devices
 * whose names are not there yet, CLBlast 1.5.3 to 1.7.0 fill their table of tuned parameters without a lock. */
#ifndef CLATTN_CORE_FIRST_USE_H
#define CLATTN_CORE_FIRST_USE_H

/* Not recursive; nothing of the caller's may be called in between. */
void first_use_lock(void);
void first_use_unlock(void);

#endif
