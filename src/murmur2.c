/*
 * murmur2.c
 *		Kafka's partitioner hash: MurmurHash2, 32 bits, with Kafka's seed.
 */
#include "postgres.h"

#include "murmur2.h"

#define MURMUR2_SEED 0x9747b28cU
#define MURMUR2_M 0x5bd1e995U
#define MURMUR2_R 24

static inline uint32
little_endian_word(const unsigned char *p)
{
	return (uint32) p[0] | (uint32) p[1] << 8 | (uint32) p[2] << 16 |
		   (uint32) p[3] << 24;
}

uint32
Murmur2(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *) data;
	uint32 h = MURMUR2_SEED ^ (uint32) len;

	for (; len >= 4; len -= 4, p += 4)
	{
		uint32 k = little_endian_word(p) * MURMUR2_M;

		k = (k ^ (k >> MURMUR2_R)) * MURMUR2_M;
		h = (h * MURMUR2_M) ^ k;
	}

	if (len > 0)
	{
		for (size_t i = len; i-- > 0;)
			h ^= (uint32) p[i] << (8 * i);
		h *= MURMUR2_M;
	}

	h = (h ^ (h >> 13)) * MURMUR2_M;
	return h ^ (h >> 15);
}
