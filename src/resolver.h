/*
 * resolver.h
 *		Names of hosts to addresses, in a way that can be given up.
 *
 * getaddrinfo() waits many seconds for a name server that is silent, nothing
 * can interrupt it, and the end of a Kafka client waits for its threads.
 *
 * Called by threads of the client: nothing of PostgreSQL may be called here.
 */
#ifndef OUTBOX_RESOLVER_H
#define OUTBOX_RESOLVER_H

#include "postgres.h"

#include <netdb.h>

/* All zeroes at the beginning; must outlive the lookups made with it. */
typedef struct Resolver
{
	bool stopping; /* protected by the lock of all lookups */
} Resolver;

/*
 * Like getaddrinfo(), but ends soon after ResolverStop(opaque).  Without a
 * node it frees a result, as the client wants it.
 */
extern int ResolverLookup(const char *node, const char *service,
						  const struct addrinfo *hints,
						  struct addrinfo **result, void *opaque);

/* Lookups that wait, and all later ones, fail at once. */
extern void ResolverStop(Resolver *resolver);

#endif
