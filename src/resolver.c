/*
 * resolver.c
 *		Each lookup has a thread, which is left to itself when nobody waits for
 *		the answer any more.
 */
#include "postgres.h"

#include <pthread.h>
#include <signal.h>

#include "resolver.h"

typedef struct Lookup
{
	/* Written before the thread starts. */
	char *node;
	char *service;
	struct addrinfo hints;

	/* Protected by the lock; whoever comes second frees. */
	bool done;
	bool abandoned;
	struct addrinfo *result;
	int error;
	int error_number; /* where error is EAI_SYSTEM */
} Lookup;

static Lookup *MakeLookup(const char *node, const char *service,
						  const struct addrinfo *hints);
static void FreeLookup(Lookup *lookup);
static bool StartThread(Lookup *lookup);
static void *RunLookup(void *arg);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

int
ResolverLookup(const char *node, const char *service,
			   const struct addrinfo *hints, struct addrinfo **result,
			   void *opaque)
{
	Resolver *resolver = opaque;
	struct addrinfo numeric;
	Lookup *lookup;
	int error;

	if (node == NULL)
	{
		freeaddrinfo(*result);
		return 0;
	}

	/* An address needs no name server. */
	numeric = *hints;
	numeric.ai_flags |= AI_NUMERICHOST;
	if (getaddrinfo(node, service, &numeric, result) == 0)
		return 0;

	lookup = MakeLookup(node, service, hints);
	if (lookup == NULL)
		return EAI_MEMORY;
	if (!StartThread(lookup))
	{
		FreeLookup(lookup);
		return EAI_AGAIN;
	}

	pthread_mutex_lock(&lock);
	while (!lookup->done && !resolver->stopping)
		pthread_cond_wait(&changed, &lock);
	if (!lookup->done)
	{
		lookup->abandoned = true;
		pthread_mutex_unlock(&lock);
		return EAI_AGAIN;
	}
	pthread_mutex_unlock(&lock);

	error = lookup->error;
	if (error == 0)
	{
		*result = lookup->result;
		lookup->result = NULL;
	}
	errno = lookup->error_number;
	FreeLookup(lookup);
	return error;
}

void
ResolverStop(Resolver *resolver)
{
	pthread_mutex_lock(&lock);
	resolver->stopping = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static Lookup *
MakeLookup(const char *node, const char *service, const struct addrinfo *hints)
{
	Lookup *lookup = calloc(1, sizeof(Lookup));

	if (lookup == NULL)
		return NULL;
	lookup->hints = *hints;
	lookup->node = strdup(node);
	lookup->service = strdup(service);
	if (lookup->node == NULL || lookup->service == NULL)
	{
		FreeLookup(lookup);
		return NULL;
	}
	return lookup;
}

static void
FreeLookup(Lookup *lookup)
{
	if (lookup->result != NULL)
		freeaddrinfo(lookup->result);
	free(lookup->node);
	free(lookup->service);
	free(lookup);
}

/* The server's signals are for its own thread. */
static bool
StartThread(Lookup *lookup)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all;
	sigset_t before;
	bool started;

	if (pthread_attr_init(&attributes) != 0)
		return false;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&thread, &attributes, RunLookup, lookup) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	pthread_attr_destroy(&attributes);
	return started;
}

static void *
RunLookup(void *arg)
{
	Lookup *lookup = arg;
	struct addrinfo *result = NULL;
	bool abandoned;
	int error;

	error =
		getaddrinfo(lookup->node, lookup->service, &lookup->hints, &result);

	pthread_mutex_lock(&lock);
	lookup->error = error;
	lookup->error_number = errno;
	lookup->result = error == 0 ? result : NULL;
	lookup->done = true;
	abandoned = lookup->abandoned;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);

	if (abandoned)
		FreeLookup(lookup);
	return NULL;
}
