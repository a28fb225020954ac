/*
 * session.h
 *		The settings that our background processes can't do with otherwise.
 */
#ifndef OUTBOX_SESSION_H
#define OUTBOX_SESSION_H

/*
 * For the life of the process; a reload does not change it, nor does ALTER
 * DATABASE ... SET.
 */
extern void SessionPin(void);

#endif
