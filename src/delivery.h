/*
 * delivery.h
 *		The worker's producer: made, served, drained and made anew.
 *
 * The producer is gapless: the first message that fails for good stops it,
 * with nothing behind that message sent.  What it still had goes again, in
 * order, through a new one.
 */
#ifndef OUTBOX_DELIVERY_H
#define OUTBOX_DELIVERY_H

#include "postgres.h"

#include "lane.h"
#include "shmem.h"

extern void DeliveryInit(DatabaseEntry *db, Lane *lanes);

/* The settings may have changed: take them over where they have. */
extern void DeliveryReconfigure(void);

/* Serves what the client reports, and replaces a producer that is at its end. */
extern void DeliveryServe(bool wanted);

/* To send with; NULL while there is no producer that takes messages. */
extern LaneSender *DeliverySender(const char *source);

/* The client has reported an error, and nothing was delivered since. */
extern bool DeliveryTroubled(void);

/* After a batch has been handed over. */
extern void DeliveryPush(LaneSender *sender);

/* Descriptor to wait for, -1 = none; *changed tells that it is another one. */
extern int DeliveryFd(bool *changed);

/* When DeliveryServe() has something to do; DT_NOEND = never. */
extern TimestampTz DeliveryDue(void);

/*
 * Lets what is in flight end, for so long; nothing new is sent.  Then the
 * producer is destroyed.
 */
extern void DeliveryStop(int timeout_ms);

#endif
